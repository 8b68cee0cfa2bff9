"""On a rehearsal host: the room that the fault ``disk-low`` leaves on its disks. SIMULATED: the disks themselves are as they were."""

import os
from typing import Optional

from pipeline.host.spawn import ENV_REHEARSAL


def free_bytes() -> Optional[int]:
    """What is told to be free; None: nothing is simulated here."""
    home = os.environ.get(ENV_REHEARSAL)
    if not home:
        return None
    from pipeline.contract import rehearsal  # here: 3 MiB, which no other host needs

    room = (rehearsal.fired_fault(home) or {}).get("free_bytes")
    return room if isinstance(room, int) and not isinstance(room, bool) else None
