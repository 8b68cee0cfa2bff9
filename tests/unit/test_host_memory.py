"""What of the host's memory is left for a program: the host's own, and its container's limit."""

from pathlib import Path

from pipeline.host_memory import available_bytes

GIB = 1 << 30


def test_the_smallest_limit_above_counts(tmp_path: Path) -> None:
    meminfo, cgroup, root = tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "root"
    assert available_bytes(str(meminfo)) is None
    meminfo.write_text(f"MemTotal: 1 kB\nMemAvailable: {100 << 20} kB\n")
    assert available_bytes(str(meminfo), str(cgroup), str(root)) == 100 * GIB

    def limit(path: str, limit: object, used: int, inactive: int, names: tuple[str, str] = ("memory.max", "memory.current")) -> None:
        (root / path).mkdir(parents=True, exist_ok=True)
        (root / path / names[0]).write_text(f"{limit}\n")
        (root / path / names[1]).write_text(f"{used}\n")
        (root / path / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")

    cgroup.write_text("0::/pod/job\n")
    limit("pod/job", "max", GIB, 0)
    assert available_bytes(str(meminfo), str(cgroup), str(root)) == 100 * GIB
    limit("pod", 64 * GIB, 40 * GIB, 30 * GIB)
    assert available_bytes(str(meminfo), str(cgroup), str(root)) == 54 * GIB
    limit("pod", 64 * GIB, 65 * GIB, 0)
    assert available_bytes(str(meminfo), str(cgroup), str(root)) == 0
    cgroup.write_text("7:memory:/docker/a\n3:cpu:/x\n")
    limit("memory/docker/a", 8 * GIB, 2 * GIB, 0, ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    assert available_bytes(str(meminfo), str(cgroup), str(root)) == 6 * GIB
