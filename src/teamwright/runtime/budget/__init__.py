"""Budget enforcement: admission, rate limits, prompt sizes, forecasts and degradation, before a call is sent."""
