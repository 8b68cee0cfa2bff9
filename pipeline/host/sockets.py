"""Which TCP ports a process listens on: its descriptors' socket inodes among those of /proc/PID/net/tcp. Source: proc(5)."""

import os
from typing import Dict, Optional, Set

_MAX_FDS = 4096
_LISTEN = b"0A"
_MAX_BYTES = 1 << 18


def listening_ports(pid: int) -> Optional[Set[int]]:
    """The ports, in the process's own network namespace; None when its descriptors may not be read, or it is gone."""
    inodes = set()
    try:
        for name in os.listdir("/proc/%d/fd" % pid)[:_MAX_FDS]:
            try:
                target = os.readlink("/proc/%d/fd/%s" % (pid, name))
            except FileNotFoundError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                inodes.add(target[8:-1].encode())
        tables = [_listening("/proc/%d/net/%s" % (pid, table)) for table in ("tcp", "tcp6")]
    except OSError:
        return None
    return {port for table in tables for inode, port in table.items() if inode in inodes}


def _listening(path: str) -> Dict[bytes, int]:
    """{inode: port}. The kernel lists listening sockets first, so a host with 100,000 connections costs no more than an idle one."""
    found: Dict[bytes, int] = {}
    try:
        with open(path, "rb") as file:
            file.readline()
            while file.tell() < _MAX_BYTES:
                fields = file.readline().split()
                if len(fields) < 10 or fields[3] != _LISTEN:
                    break
                found[fields[9]] = int(fields[1].rpartition(b":")[2], 16)
    except FileNotFoundError:
        pass  # a kernel without IPv6
    return found


def own_network(pid: int) -> Optional[bool]:
    """Whether the process has another network namespace than this one; None when that may not be read."""
    try:
        return os.stat("/proc/%d/ns/net" % pid).st_ino != os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return None
