"""Pictures: data to figure, with drawing kept apart from data. matplotlib is imported where it is used."""
