"""A client for servers that offer OpenAI's chat completions: vLLM, llama.cpp, Ollama, gateways, the embedded model."""
