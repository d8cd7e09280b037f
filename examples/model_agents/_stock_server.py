"""An MCP server of a small shop, with one tool."""

from mcp.server import MCPServer

server = MCPServer("stock")
STOCK = {"lamp": 3, "desk": 0}


@server.tool()
def count(item: str) -> int:
    """Return how many pieces of an item are in stock."""
    return STOCK.get(item, 0)


server.run("stdio")
