"""What models learn from: stories, pairs of files, pictures; and how text becomes ids and ids become batches."""
