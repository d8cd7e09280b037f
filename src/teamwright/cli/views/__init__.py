"""What a person sees of a run while it is driven, and how they answer it."""
