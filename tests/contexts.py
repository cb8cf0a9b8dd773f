"""Makes a Context for tests that need nothing of its parts."""

from adapters.base import Backend
from server.context import Context
from server.generation.admission import Admission
from server.generation.gateway import Gateway
from server.http.bodies.budget import Budget
from server.settings import Settings
from server.store.files.folder import FileFolder
from server.store.files.library import FileLibrary, FileLimits
from server.store.responses.memory import MemoryStore
from server.telemetry.metrics import Metrics
from server.telemetry.readiness import Readiness
from server.tools.python.containers import ContainerLimits, ContainerService
from server.tools.toolbox import Toolbox


def new_context(settings: Settings, backend: Backend) -> Context:
    """A context whose store is in memory."""
    store = MemoryStore()
    library = FileLibrary(store.files, FileFolder(None), FileLimits(1, 1))
    containers = ContainerService(store.containers, library, None, ContainerLimits())
    gateway = Gateway(backend, Admission(1, 0))
    return Context(
        settings,
        gateway,
        created=0,
        store=store,
        body_budget=Budget(1),
        files=library,
        containers=containers,
        toolbox=Toolbox(()),
        readiness=Readiness(backend, store),
        metrics=Metrics("m", backend.info.context_length, (), "1.0", backend.info.name),
    )
