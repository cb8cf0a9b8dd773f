import logging
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from adapters.errors import BackendFailed
from adapters.local.model import kernels
from adapters.local.model.kernels import HOPPER_ATTENTION, provide
from adapters.requirements import MXFP4_KERNELS as MXFP4

Calls = list[tuple[str, int, bool]]


class Hub(ModuleType):
    """Stands in for the package kernels, with a cache and a network."""

    def __init__(self, cached: set[str], reachable: bool) -> None:
        super().__init__("kernels")
        self.calls: Calls = []
        self._cached = cached
        self._reachable = reachable

    def install_kernel(self, repo_id: str, *, version: int, local_files_only: bool = False) -> Path:
        self.calls.append((repo_id, version, local_files_only))
        if local_files_only:
            logging.getLogger("kernels.hf_hub").warning("the publisher is not checked")
        if repo_id in self._cached:
            return Path("/cache", repo_id)
        if local_files_only:
            raise FileNotFoundError("Cannot find a local snapshot")
        if not self._reachable:
            try:
                raise ConnectionError("no route to the hub")
            except ConnectionError:
                raise ValueError("could not verify publisher trust status") from None
        self._cached.add(repo_id)
        return Path("/cache", repo_id)


@pytest.fixture
def hub(request: Any, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.setenv("LOCAL_KERNELS", "mine/kernel=/mine")
    made = Hub(*request.param)
    monkeypatch.setitem(sys.modules, "kernels", made)
    return made


@pytest.mark.parametrize("hub", [({MXFP4}, False)], indirect=True)
def test_what_is_cached_needs_no_hub(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    provide(MXFP4)
    provide(MXFP4)
    assert not caplog.records
    assert logging.getLogger("kernels").level == logging.NOTSET
    assert hub.calls == [(MXFP4, 1, True)]
    assert os.environ["LOCAL_KERNELS"] == f"mine/kernel=/mine:{MXFP4}=/cache/{MXFP4}"


@pytest.mark.parametrize("hub", [(set(), True)], indirect=True)
def test_what_is_not_cached_is_downloaded_once(hub: Hub) -> None:
    provide(MXFP4)
    provide(MXFP4)
    assert [offline for *_, offline in hub.calls] == [True, False]


@pytest.mark.parametrize("hub", [(set(), False)], indirect=True)
def test_a_folder_that_the_user_named_needs_no_hub(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_KERNELS", f"mine/kernel=/mine:{MXFP4}=/built")
    provide(MXFP4)
    assert hub.calls == []
    assert os.environ["LOCAL_KERNELS"] == f"mine/kernel=/mine:{MXFP4}=/built"


@pytest.mark.parametrize("hub", [(set(), False)], indirect=True)
@pytest.mark.parametrize("repository", [MXFP4, HOPPER_ATTENTION])
def test_a_kernel_that_cannot_be_had_is_named(hub: Hub, repository: str) -> None:
    with pytest.raises(
        BackendFailed, match=f"{repository} are not in the cache.*ConnectionError: no route"
    ):
        provide(repository)
    assert os.environ["LOCAL_KERNELS"] == "mine/kernel=/mine"


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kernels", None)
    with pytest.raises(BackendFailed, match="kernels"):
        provide(MXFP4)


@pytest.mark.parametrize("hub", [(set(), True)], indirect=True)
def test_an_image_gets_all_kernels(hub: Hub) -> None:
    kernels.main()
    assert {repository for repository, *_ in hub.calls} == {MXFP4, HOPPER_ATTENTION}
