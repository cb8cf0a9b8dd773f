"""Checks of the layers that confine Python code of the model, by using them."""

import os

from server.commands.doctor.check import Check, Status, run
from server.tools.python.confinement.probe import ON, Probe, probe

_LAYERS = {
    "bubblewrap": (
        "install it (apt install bubblewrap) and allow user namespaces (sysctl "
        "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0); in "
        "Docker, its default profile forbids them"
    ),
    "landlock": "boot a kernel of 5.13 or later with landlock among its security modules (lsm=)",
    "seccomp": "boot a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or 64-bit ARM",
    "user": "only root can give each session a user of its own; nothing has to be done",
}
"""What to do where a layer does not work."""


def check_sandbox() -> list[Check]:
    """A check for each layer, for all together, and for Docker. None of them keeps `serve` from
    running: without a sandbox, the tool `python` is off."""
    found = probe()
    layers = [check_layer(name, state) for name, state in found.report.items()]
    return [*layers, check_together(found), check_docker()]


def check_layer(name: str, state: str) -> Check:
    """state: `on`, or why the layer is off."""
    title = f"sandbox {name}"
    if state == ON:
        return Check(title, "ok", "works")
    # Most servers do not run as root, and should not.
    status: Status = "ok" if name == "user" else "warning"
    return Check(title, status, state, _LAYERS[name])


def check_together(found: Probe) -> Check:
    """Whether the layers that work are enough."""
    if found.problem is None:
        used = [name for name, state in found.report.items() if state == ON]
        return Check("Python sandbox", "ok", ", ".join(used))
    advice = "the tool python is off; make seccomp work, and bubblewrap or Landlock"
    return Check("Python sandbox", "warning", found.problem, advice)


def check_docker() -> Check:
    """Whether this user reaches a Docker daemon."""
    status, text = run("docker", "version", "--format", "{{.Server.Version}}", seconds=5)
    if status == 0:
        return Check("Docker", "ok", text)
    host = os.environ.get("DOCKER_HOST", "")
    fact = "not installed" if status is None else f"no daemon answers {host}".strip()
    return Check("Docker", "ok", f"{fact}; only `docker compose` needs one")
