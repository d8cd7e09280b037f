"""Values as text for a terminal. Pure: values in, text out."""
