"""Isolation: candidates in a child process, so that a crash or an endless kernel costs no more."""
