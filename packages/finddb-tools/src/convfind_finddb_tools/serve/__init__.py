"""``convfind db serve``: databases in a browser, read-only, on this machine only."""
