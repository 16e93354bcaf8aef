"""The commands of ``convfind db``: one file a command."""
