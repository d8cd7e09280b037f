"""Files for a task and from tools: images, documents and texts, and how models receive them."""
