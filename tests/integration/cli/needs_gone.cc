int answer_from_a_library();
int main() { return answer_from_a_library(); }
