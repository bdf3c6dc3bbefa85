"""What an execution tells others: the record of a CTA, and events for observers."""
