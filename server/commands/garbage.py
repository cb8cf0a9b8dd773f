"""Settings of Python's garbage collector for a process that serves.

With transformers, half a million objects are imported and never freed. With Python's own settings,
collections during the imports took a quarter of the start, a collection while serving would pause
the process for a quarter of a second, and with 64 streams through vLLM collections took 8 %.
"""

import gc
import linecache

from adapters.freed_memory import release_freed

COLLECT_AFTER = 50_000
"""Objects allocated and not freed before a collection; 700 is Python's default."""


def collect_seldom() -> None:
    """Collect after more objects than before."""
    gc.set_threshold(COLLECT_AFTER)


def exclude_from_collections() -> None:
    """Exclude all objects that exist now from collections, those without use too."""
    gc.freeze()


def reduce_garbage_collections() -> None:
    """Collect once, exclude the remaining objects from collections, and collect seldom.

    Answers make no reference cycles.
    """
    gc.collect()
    exclude_from_collections()
    collect_seldom()


def free_unused() -> None:
    """Give the system back what only the start needed.

    That is up to 14 MB of memory, and 3 MB of source code: while torch is imported, it notes where
    its functions are called from, and Python keeps the lines of each file that it reads for this.
    """
    linecache.clearcache()
    release_freed()
