"""The report, opened in a real browser."""

import shutil
import subprocess
import sys

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Debian's packages chromium and chromium-driver"
)

QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)

# Loads each result's image in the page itself; what cannot be shown has a natural width of 0.
WIDTHS = """
const done = arguments[arguments.length - 1];
const shown = Object.values(results).map(result => new Promise(resolve => {
    const image = new Image();
    image.onload = () => resolve([result.name, image.naturalWidth]);
    image.onerror = () => resolve([result.name, 0]);
    image.src = result.data_uri;
}));
Promise.all(shown).then(pairs => done(Object.fromEntries(pairs)));
"""


@pytest.fixture
def browser(tmp_path):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*QUIET, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1300,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(30)
    yield driver
    driver.quit()


def test_the_report_shows_every_figure_with_its_caption_and_no_console_error(study, browser) -> None:
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--report", "results/report.html"]
    made = subprocess.run(command, cwd=study.path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    browser.get((study / "results/report.html").as_uri())
    assert browser.title == "Snakemake Report"
    figures = {f"{name}.png" for name in study.config["figures"]}
    widths = browser.execute_async_script(WIDTHS)
    assert set(widths) == figures
    assert all(width > 500 for width in widths.values()), widths
    captions = browser.execute_script("return Object.values(results).map(result => result.caption)")
    assert len(captions) == len(figures)
    assert all("tiny" in caption for caption in captions), captions
    _open_every_category(browser, figures)
    severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert severe == []


def _open_every_category(browser, figures: set[str]) -> None:
    """Walk the menu as a reader does: a category, its models, and the table of figures under it."""
    from selenium.webdriver.common.by import By

    names = browser.execute_script("return Object.keys(categories)")
    assert names
    found: set[str] = set()
    for category in names:
        browser.refresh()
        browser.find_element(By.LINK_TEXT, category).click()
        for model in browser.execute_script("return Object.keys(categories[arguments[0]])", category):
            links = browser.find_elements(By.LINK_TEXT, model)
            if links:
                links[0].click()
            kinds = browser.execute_script(
                "return categories[arguments[0]][arguments[1]].map(path => results[path].name)",
                category,
                model,
            )
            assert kinds
            found |= set(kinds)
            assert browser.find_element(By.TAG_NAME, "table").text
    assert found == figures
