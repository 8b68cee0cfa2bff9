"""Which files are NVIDIA's devices: told by their numbers, and by what /proc says of other drivers."""

import os
import stat
from pathlib import Path

from pipeline.host.devices import Devices


def test_devices_are_known_by_number_whatever_they_are_called(tmp_path: Path) -> None:
    node = tmp_path / "dev" / "renamed"
    node.parent.mkdir()
    os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(195, 3))
    (tmp_path / "dev" / "nvidia0").touch()
    opened = [os.open(node, os.O_PATH), os.open(tmp_path / "dev" / "nvidia0", os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)]
    try:
        devices = Devices()
        assert [devices.of_descriptor(f"/proc/self/fd/{fd}") for fd in opened] == ["nvidia3", None, None]
    finally:
        for fd in opened:
            os.close(fd)
    assert [devices.of_number(195, minor) for minor in (0, 254, 255)] == ["nvidia0", "nvidia-modeset", "nvidiactl"]


def test_the_numbers_of_other_drivers_are_read_from_proc(tmp_path: Path) -> None:
    card = tmp_path / "driver" / "nvidia" / "gpus" / "0000:17:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t NVIDIA X\nGPU UUID:   \t GPU-12ab\nDevice Minor: \t 4\n")
    text = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n508 nvidia-uvm\n509 nvidia-caps\n\nBlock devices:\n508 nvidia-no\n"
    (tmp_path / "devices").write_text(text)
    devices = Devices(proc=str(tmp_path))
    assert devices.majors == {508: "nvidia-uvm", 509: "nvidia-caps"} and devices.uuids == {4: "GPU-12ab"}
    assert devices.of_path("/dev/nvidia-uvm") == "nvidia-uvm" and devices.of_path("/tmp/nvidia-uvm") is None
