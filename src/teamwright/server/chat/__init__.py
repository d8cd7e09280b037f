"""Teams behind the protocols of chat programs, editors and front ends: chat completions, Responses, AG-UI, ACP."""
