namespace elsewhere {
int missing(int value);
}

int needs_it();
int needs_it() { return elsewhere::missing(1); }
