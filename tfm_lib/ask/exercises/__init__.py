"""The exercises of the lessons: references, inputs, and the mistakes that learners make. A file a lesson."""
