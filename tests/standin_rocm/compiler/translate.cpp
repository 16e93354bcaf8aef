#include "translate.h"

#include <cctype>
#include <set>

namespace {
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

size_t skip_blank(const std::string &text, size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  return at;
}

// Behind the parenthesis that closes the one at `at`.
size_t skip_parentheses(const std::string &text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    depth += (text[at] == '(') - (text[at] == ')');
    if (depth == 0) return at + 1;
  }
  return at;
}

size_t word_end(const std::string &text, size_t at) {
  while (at < text.size() && is_word(text[at])) ++at;
  return at;
}

// The name of the function whose declaration goes on at `at`: the word before the first parenthesis.
std::string function_name(const std::string &text, size_t at) {
  while (at < text.size()) {
    at = skip_blank(text, at);
    const size_t end = word_end(text, at);
    if (end == at) {
      ++at;
      continue;
    }
    const std::string word = text.substr(at, end - at);
    const size_t next = skip_blank(text, end);
    if (text[next] != '(') at = end;
    else if (word == "__attribute__" || word == "alignas") at = skip_parentheses(text, next);
    else return word;
  }
  return "";
}

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text.substr(skip_blank(text, 0));
}

bool drop_prefix(std::string &text, const std::string &prefix) {
  if (text.compare(0, prefix.size(), prefix) != 0) return false;
  text = trimmed(text.substr(prefix.size()));
  return true;
}

// The type whose vectors a statement declares: `typedef TYPE NAME __attribute__((`, `using NAME = TYPE
// __attribute__((` or `typedef __attribute__((`, the type behind that.
std::string element_type(std::string before, const std::string &text, size_t behind) {
  before = trimmed(before.substr(0, before.rfind("__attribute__")));
  if (drop_prefix(before, "using")) return trimmed(before.substr(before.find('=') + 1));
  drop_prefix(before, "typedef");
  if (before.empty()) before = trimmed(text.substr(behind, text.find(';', behind) - behind));
  while (!before.empty() && is_word(before.back())) before.pop_back();
  return trimmed(before);
}
}  // namespace

std::string translated(const std::string &text) {
  std::string out;
  std::set<std::string> kernels;
  size_t last_extern = std::string::npos;
  int arrays = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || (c == '\'' && (at == 0 || !is_word(text[at - 1])))) {
      const size_t start = at++;
      while (at < text.size() && text[at] != c && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
      out += text.substr(start, ++at - start);
      continue;
    }
    if (!is_word(c)) {
      out += c;
      ++at;
      continue;
    }
    const size_t end = word_end(text, at);
    const std::string word = text.substr(at, end - at);
    at = end;
    if (word == "standin_global") {
      kernels.insert(function_name(text, at));
      out += "__attribute__((visibility(\"default\")))";
    } else if (word == "standin_shared" && last_extern != std::string::npos) {
      // extern __shared__ TYPE NAME[]; is a pointer to memory whose size the launch gives.
      const size_t bracket = text.find('[', at), stop = text.find(';', at);
      std::string type = trimmed(text.substr(at, bracket - at));
      size_t name = type.size();
      while (name > 0 && is_word(type[name - 1])) --name;
      const std::string element = trimmed(type.substr(0, name));
      out.erase(last_extern);
      out += element + " *const " + type.substr(name) + " = (" + element + " *)standin_dynamic;";
      at = stop + 1;
    } else if (word == "standin_shared") {
      out += "static __attribute__((section(\"standin_lds_" + std::to_string(arrays++) + "\")))";
    } else if (word == "ext_vector_type") {
      const size_t open = skip_blank(text, at), close = skip_parentheses(text, open);
      // A declaration stands in one line.
      const std::string before = trimmed(out.substr(out.find_last_of(";{}\n") + 1));
      const size_t behind = text.find("))", close - 1);
      const std::string type = element_type(before, text, behind + 2 < text.size() ? behind + 2 : text.size());
      out += "vector_size(sizeof(" + type + ") * " + text.substr(open, close - open) + ")";
      at = close;
    } else {
      last_extern = word == "extern" ? out.size() : std::string::npos;
      out += word;
      continue;
    }
    last_extern = std::string::npos;
  }
  out += "\n";
  for (const std::string &kernel : kernels) {
    const std::string call = "StandinCall<decltype(" + kernel + ")>::";
    out += "extern \"C\" __attribute__((visibility(\"default\"))) const StandinKernel standin_kernel_" + kernel + " = {" +
           call + "call<" + kernel + ">, " + call + "count, " + call + "sizes, " + call + "alignments};\n";
  }
  return out;
}
