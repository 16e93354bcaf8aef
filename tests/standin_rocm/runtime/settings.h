// What the environment says: pretended devices and faults. Read at every use, so that a test may change it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

inline std::string setting(const char *name, const char *otherwise = "") {
  const char *value = std::getenv(name);
  return value && *value ? value : otherwise;
}

inline bool is_set(const char *name) { return !setting(name).empty() && setting(name) != "0"; }

inline long long setting_number(const char *name, long long otherwise) {
  const std::string value = setting(name);
  return value.empty() ? otherwise : std::atoll(value.c_str());
}

// "gfx90a:sramecc+:xnack-" -> {"gfx90a", "sramecc+", "xnack-"}
inline std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

inline std::vector<std::string> device_archs() {
  const std::string archs = setting("STANDIN_DEVICES", "gfx90a:sramecc+:xnack-");
  return archs == "none" ? std::vector<std::string>() : split(archs, ',');
}

inline int wave_size(const std::string &arch) {
  const std::string processor = split(arch, ':')[0];
  return processor.size() == 6 && (processor[3] == '8' || processor[3] == '9') ? 64 : 32;
}
