"""The limit on the open files of a process."""

import logging
import resource

logger = logging.getLogger(__name__)


def raise_file_limit(needed: int, option: str) -> None:
    """Raise this process's limit on open files to `needed`, as far as allowed.

    option: what needs them, for the log, such as `--max-connections 4096`.
    """
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    reachable = needed if most == resource.RLIM_INFINITY else min(needed, most)
    if allowed != resource.RLIM_INFINITY and allowed < reachable:
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, most))
    if reachable < needed:
        logger.warning(
            "at most %d files may be open (ulimit -n), fewer than %s needs", most, option
        )
