"""What the course asks: questions, as a quiz and on flashcards, and exercises that check themselves.

questions -> quiz (and its js/), flashcards                          read from the lessons' cells
exercise -> comparing, running -> verdict -> checks; progress_file   the engine of the checks, and what was done
exercises/                                                           what it checks, a table a lesson
"""
