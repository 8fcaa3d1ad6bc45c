"""A module that lacks a package."""

import a_package_that_nobody_has  # noqa: F401
