"""The commands of ``convfind network``: one file a command."""
