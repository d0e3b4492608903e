"""A check-up for any Transformer: what is wrong with it, seen from outside on tiny inputs."""

from tfm_lib.checkup.command import assert_healthy
from tfm_lib.checkup.examine import PARTS, checkup
from tfm_lib.checkup.report import Finding, Report

__all__ = ["PARTS", "Finding", "Report", "assert_healthy", "checkup"]
