import re

from server.web.assets import POLICY, assets, playground_page, start_page, version


def test_the_page_names_only_files_that_exist() -> None:
    page = playground_page().decode()
    named = re.findall(rf"playground/assets/{version()}/([\w.]+)", page)
    assert len(named) >= 3
    assert set(named) <= set(assets())


def test_modules_import_only_files_that_exist() -> None:
    for name, asset in assets().items():
        if name.endswith(".js"):
            imported = re.findall(r'(?:from |import\()"\./([\w.]+)"', asset.content.decode())
            assert set(imported) <= set(assets()), name


def test_everything_that_the_first_view_loads_is_small() -> None:
    page = playground_page().decode()
    named = set(re.findall(r"assets/\w+/([\w.]+)", page))
    size = len(page) + sum(len(assets()[name].content) for name in named)
    assert size <= 200_000
    # The page, its files, and the list of models.
    assert len(named) + 2 <= 13


def test_the_start_page_links_the_playground_where_it_is_served() -> None:
    assert b'href="playground"' in start_page(playground=True)
    assert b'href="playground"' not in start_page(playground=False)
    assert b'href="docs"' in start_page(playground=False)


def test_no_page_has_scripts_or_styles_of_its_own() -> None:
    for page in (playground_page(), start_page(playground=True)):
        assert not re.search(rb"<style|<script(?! type=\"module\" src=)| style=| on\w+=", page)
    assert "unsafe" not in POLICY
