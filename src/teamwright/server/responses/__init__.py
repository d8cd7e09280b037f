"""Teams behind the Responses API: a response is a run, or the part of one that follows an answer."""
