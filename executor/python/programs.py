"""Puts the programs of Cascade into a wheel, as scripts: pip installs them beside the interpreter's own.

packaging/wheel builds them, and names their folder and the wheel's platform in the environment. Without these the wheel
has Python alone, for hosts that have the programs already.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMES = ("cascade", "cascade-agent", "cascade-controller")


class Programs(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the programs to what is built."""
        folder, platform = os.environ.get("CASCADE_WHEEL_PROGRAMS", ""), os.environ.get("CASCADE_WHEEL_PLATFORM", "")
        if bool(folder) != bool(platform):
            raise ValueError("a wheel with programs needs both CASCADE_WHEEL_PROGRAMS and CASCADE_WHEEL_PLATFORM")
        if folder:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            build_data["shared_scripts"] = {os.path.join(folder, name): name for name in NAMES}
