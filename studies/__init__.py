"""Studies: experiments that one command runs from data to figure."""
