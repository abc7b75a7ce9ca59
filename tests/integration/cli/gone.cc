// A library that programs are linked with and that is then not found.
int answer_from_a_library();
int answer_from_a_library() { return 0; }
