/* The kernel of all systems: dependent multiply-adds. The result stays between 0 and 1. */
double compute(double x, long iterations) {
	for (long i = 0; i < iterations; i++)
		x = x * 0.999 + 0.001;
	return x;
}
