"""The logger is silent until asked, and asking twice does not double messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from convfind.log import logger, show_messages


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_a_library_user_sees_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert any(isinstance(handler, logging.NullHandler) for handler in logger.handlers)
    logger.error("unheard")
    assert capsys.readouterr() == ("", "")


def test_messages_go_to_standard_error_once(capsys: pytest.CaptureFixture[str]) -> None:
    show_messages("WARNING")
    show_messages("info")
    logger.info("heard [0]")
    logger.debug("unheard")
    assert capsys.readouterr() == ("", "info: heard [0]\n")
