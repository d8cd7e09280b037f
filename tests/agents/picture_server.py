"""An MCP server for tests, run as a program, that draws."""

from mcp.server import MCPServer
from mcp.server.mcpserver import Image

server = MCPServer("pictures")


@server.tool()
def draw(word: str) -> list[str | Image]:
    """Draw a word."""
    return [f"drew {word}", Image(data=b"\x89PNG\r\n\x1a\n" + word.encode(), format="png")]


if __name__ == "__main__":
    server.run()
