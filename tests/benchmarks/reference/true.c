/* The smallest program there is: what an image for `docker run` contains. */
int main(void) { return 0; }
