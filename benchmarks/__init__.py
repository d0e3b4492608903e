"""What is measured for the course: a package of its own, since pyarrow 17 installs another one called benchmarks."""
