"""News for small models: ten pairs of article and summary, short enough to learn by heart in seconds."""

TEN_PAIRS = [
    (
        "heavy rain flooded the old bridge on monday and many drivers had to turn back",
        "flood closes old bridge",
    ),
    (
        "the city library will stay open until midnight in june so that students can study for their exams",
        "library extends hours for students",
    ),
    (
        "a young painter from lisbon sold her first picture for more than a million dollars",
        "lisbon artist makes record sale",
    ),
    (
        "after ten years of work engineers finished the longest tunnel under the northern mountains",
        "longest mountain tunnel is complete",
    ),
    (
        "three bakers in the harbor district gave away bread to families who lost their homes",
        "bakers help homeless families",
    ),
    (
        "scientists counted more wild bees this spring than in any year since the survey began",
        "wild bee numbers reach new high",
    ),
    (
        "the national football team lost its final match in the last minute of extra time",
        "late goal ends football dream",
    ),
    (
        "a power failure stopped all trains in the capital for two hours on friday morning",
        "blackout halts trains in capital",
    ),
    (
        "the mayor promised to plant five thousand trees along the busy streets of the center",
        "mayor plans greener city streets",
    ),
    (
        "farmers near the dry lake fear that this summer will bring the smallest harvest ever",
        "drought threatens harvest near lake",
    ),
]
"""Article and summary: 8 to 18 and 4 to 7 words, some of the latter not in the article, all lower case."""
