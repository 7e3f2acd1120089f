"""A headless Chromium for tests of pages."""

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A headless Chromium, spoken to through pipes in its own protocol."""

    def __init__(self, profile: Path) -> None:
        to_browser, from_us = os.pipe()
        to_us, from_browser = os.pipe()
        flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
        flags += " --disable-component-update --disable-sync --disable-extensions --remote-debugging-pipe"
        # It reads from 3 and writes to 4.
        connect = "import os, sys, fcntl; "
        connect += "a, b = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]); "
        connect += "os.dup2(a, 3); os.dup2(b, 4); os.execv(sys.argv[3], sys.argv[3:])"
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", connect, str(to_browser), str(from_browser), BROWSER),
                *(*flags.split(), f"--user-data-dir={profile}", "--window-size=1200,900"),
            ],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.watchdog = threading.Timer(600, self.process.kill)
        self.watchdog.start()
        os.close(to_browser)
        os.close(from_browser)
        self.writer, self.reader = os.fdopen(from_us, "wb", 0), os.fdopen(to_us, "rb")
        self.number, self.session, self.events = 0, None, []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def receive(self):
        content = bytearray()
        while (byte := self.reader.read(1)) != b"\0":
            assert byte, "the browser has gone"
            content += byte
        return json.loads(content)

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file, its address followed by a fragment."""
        seen = len(self.events)
        self.send("Page.navigate", url=path.as_uri() + fragment)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events[seen:]):
            self.events.append(self.receive())

    def run(self, script):
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def outside(self, width):
        """What does not fit a phone of this width: elements beyond its edge that no region scrolls."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=740, deviceScaleFactor=2, mobile=True)
        assert self.run("document.documentElement.scrollWidth") <= width
        beyond = f"!e.closest('.scroll') && e.getBoundingClientRect().right > {width + 1}"
        return self.run(
            f"[...document.querySelectorAll('main *')].filter(e => {beyond}).map(e => e.outerHTML.slice(0, 80))"
        )

    def mouse(self, selector, *kinds):
        """Move to the middle of an element, and perhaps press and release there."""
        where = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{where}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
        x, y = self.run(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({where}.getBoundingClientRect())")
        for kind in ("mouseMoved", *kinds):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if kinds else "none", clickCount=1)

    def click(self, selector):
        self.mouse(selector, "mousePressed", "mouseReleased")

    def complaints(self):
        bad = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                bad.append(params)
            if event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                bad.append(params)
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                bad.append(params)
        return bad


@contextmanager
def headless(profile: Path):
    """A browser with an empty page; the test is skipped where there is none."""
    if BROWSER is None or os.name != "posix":
        pytest.skip("no Chromium is installed; on Debian: apt-get install chromium")
    browser = Browser(profile)
    try:
        yield browser
    finally:
        browser.watchdog.cancel()
        browser.process.terminate()
        browser.process.wait(20)
        browser.writer.close()
        browser.reader.close()
