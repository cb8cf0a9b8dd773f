"""What confines a session's process: a guard, resource limits, Landlock, seccomp, bubblewrap.

`guard` and `confine` run as programs of their own, started by `server.tools.python.confinement.
command`. They, and what they import, use the standard library only.
"""
