"""A real Chromium, driven over its debugging pipe: what the tests of the report open, click and read.

The browser is `chromium` or `chromium-browser` on the PATH, or what GPUEMU_CHROMIUM names. Without one the tests skip;
with GPUEMU_CHROMIUM set, to a path or to "required", they fail instead.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

DEMANDED = os.environ.get("GPUEMU_CHROMIUM", "")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
    "--disable-extensions", "--disable-component-update", "--disable-background-networking", "--remote-debugging-pipe",
)  # fmt: skip


def chromium() -> str:
    """Where the browser is; skips the test, or fails it where the environment demands one."""
    names = [DEMANDED] if DEMANDED not in ("", "required") else ["chromium", "chromium-browser"]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and DEMANDED:
        pytest.fail(f"GPUEMU_CHROMIUM is {DEMANDED}, and there is no {' or '.join(names)}")
    if found is None:
        pytest.skip("no chromium on the PATH; GPUEMU_CHROMIUM=required makes this a failure")
    return found


class Browser:
    """One page of a browser; use it in a `with`."""

    def __init__(self, profile: Path):
        to_us, from_them = os.pipe()
        from_us, to_them = os.pipe()

        def become() -> None:  # the browser reads its file 3 and writes its file 4
            far = [fcntl.fcntl(end, fcntl.F_DUPFD, 64) for end in (from_us, from_them)]
            for number, end in enumerate(far, 3):
                os.dup2(end, number)

        self._process = subprocess.Popen(
            [chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=become, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(from_us)
        os.close(from_them)
        self._in, self._out = os.fdopen(to_them, "wb", 0), os.fdopen(to_us, "rb", 0)
        self._buffer, self._number, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(20)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = self._out.read(65536)
            assert more, "the browser has gone"
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def call(self, method: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        self._in.write(json.dumps(command).encode() + b"\0")
        while (message := self._message()).get("id") != self._number:
            pass
        assert "error" not in message, message
        return message["result"]

    def open(self, file: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=file.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._message()

    def js(self, expression: str) -> Any:
        """The value of an expression, or of what it promises; an error of the page fails the test."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def key(self, name: str, text: str = "") -> None:
        """Press a key where the focus is."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, text=text, code=name)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name)

    def click(self, selector: str) -> None:
        """A real click in the middle of an element, which is brought into view."""
        self.js(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.js(
            f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect();"
            " return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def dress(self, width: int, height: int, scheme: str) -> None:
        """The window's size, and what the system prefers: light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        # The page hears of both with its next frame.
        self.js("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(() => drawn(1))))")

    def picture(self, file: Path, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))
