"""Every team as an MCP server: tools, durable tasks and resources, over HTTP and stdio."""
