"""The embedded server runs real commands: bytes, exit codes, signals, ends of file, several at once."""

import asyncio
import hashlib
import os

import asyncssh
import pytest

MIB = 1 << 20


async def test_a_command_runs_in_the_hosts_home_with_its_environment_and_nothing_of_ours(host, connect, monkeypatch) -> None:
    connection = await connect()
    result = await connection.run("pwd; env", check=True)
    lines = str(result.stdout).splitlines()
    assert lines[0] == f"{host.home}/home"
    environment = dict(line.split("=", 1) for line in lines[1:])
    assert environment["HOME"] == f"{host.home}/home"
    assert environment["EAGLEWATCH_REHEARSAL"] == host.home
    assert environment["EAGLEWATCH_SIM_GPUS"] == f"{host.home}/gpus.state"
    assert environment["EAGLEWATCH_NVML"] == "pipeline.rehearsal.sim_nvml:install"
    assert os.path.dirname(host.interpreter) in environment["PATH"].split(":")
    assert not {"PYTEST_CURRENT_TEST", "PYTHONPATH", "VIRTUAL_ENV"} & set(environment)


async def test_exit_codes_signals_and_both_output_streams(connect) -> None:
    connection = await connect()
    result = await connection.run("echo out; echo err >&2; exit 7")
    assert (result.stdout, result.stderr, result.exit_status) == ("out\n", "err\n", 7)
    result = await connection.run("kill -KILL $$")
    assert result.exit_signal is not None and result.exit_signal[0] == "KILL"
    assert result.exit_status == -1
    result = await connection.run("no-such-command-here")
    assert result.exit_status == 127


async def test_no_command_gives_a_shell_that_reads_its_input(connect) -> None:
    result = await (await connect()).run(input="echo in a shell; exit 4\n")
    assert (result.stdout, result.exit_status) == ("in a shell\n", 4)


async def test_a_signal_reaches_the_command_after_its_stdin_has_ended(connect) -> None:
    process = await (await connect()).create_process("trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    assert await process.stdout.readline() == "ready\n"
    process.stdin.write_eof()
    process.terminate()
    result = await asyncio.wait_for(process.wait(), 30)
    assert (result.stdout, result.exit_status) == ("got it\n", 5)


async def test_stdin_eof_is_forwarded_and_output_goes_on_after_it(connect) -> None:
    result = await (await connect()).run("cat >/dev/null; echo ended; sleep 0.2; echo later", input="x" * 1000)
    assert result.stdout == "ended\nlater\n"


async def test_many_mib_come_back_unchanged_although_nobody_reads_at_first(connect) -> None:
    data = os.urandom(24 * MIB)
    process = await (await connect()).create_process("cat", encoding=None)

    async def feed() -> None:
        for at in range(0, len(data), 100_000):
            process.stdin.write(data[at : at + 100_000])
            await process.stdin.drain()
        process.stdin.write_eof()

    feeding = asyncio.create_task(feed())
    # Nobody reads: `cat`, both pipes and both windows (2 MiB each) fill up, and the feeder has to wait.
    done, _ = await asyncio.wait({feeding}, timeout=1.0)
    assert not done, "24 MiB went in while nobody read: some buffer has no bound"
    received = bytearray()
    while chunk := await asyncio.wait_for(process.stdout.read(300_000), 30):
        received += chunk
    await feeding
    assert len(received) == len(data)
    assert hashlib.sha256(received).digest() == hashlib.sha256(data).digest()
    assert (await process.wait()).exit_status == 0


@pytest.mark.parametrize("tail", [1, 4095, 65_537])
async def test_the_last_bytes_before_an_end_of_file_are_not_lost(connect, tail) -> None:
    connection = await connect()
    data = os.urandom(3 * MIB + tail)
    for _ in range(3):
        result = await connection.run("cat", input=data, encoding=None)
        assert result.stdout == data


async def test_a_command_that_closes_its_stdin_does_not_hold_up_the_client(connect) -> None:
    result = await asyncio.wait_for((await connect()).run("exec <&-; sleep 0.3; echo fine", input=b"z" * (6 * MIB), encoding=None), 30)
    assert (result.stdout, result.exit_status) == (b"fine\n", 0)


async def test_four_sessions_at_once(connect) -> None:
    connection = await connect()
    results = await asyncio.gather(*(connection.run(f"cat; exit {number}", input=str(number) * MIB) for number in range(4)))
    assert [(result.exit_status, result.stdout == str(number) * MIB) for number, result in enumerate(results)] == [
        (number, True) for number in range(4)
    ]


async def test_a_foreign_key_a_password_and_a_foreign_server_are_refused(connect, tmp_path) -> None:
    foreign = asyncssh.generate_private_key("ssh-ed25519")
    with pytest.raises(asyncssh.PermissionDenied):
        await connect(client_keys=[foreign])
    with pytest.raises(asyncssh.PermissionDenied):
        await connect(client_keys=None, password="rehearsal")
    public = foreign.export_public_key().decode()
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        await connect(known_hosts=asyncssh.import_known_hosts(f"* {public}"))


async def test_no_forwarding_and_no_terminal(connect) -> None:
    connection = await connect()
    with pytest.raises(asyncssh.ChannelOpenError):
        await connection.open_connection("127.0.0.1", 9)
    with pytest.raises(asyncssh.ChannelListenError):
        await connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", 9)
    result = await connection.run("test -t 0 || echo no terminal")
    assert result.stdout == "no terminal\n"
