// Reads the profiles that PipeDream published (graph.txt).
#include "planner/profile/file_kind.hpp"
#include "planner/profile/profile.hpp"
#include "planner/profile/wording.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <stdexcept>

namespace penstock::planner {

namespace {

constexpr std::string_view separator = " -- ";

struct graph_node {
  std::string name;
  std::string description;
  double forward_seconds = 0;
  double backward_seconds = 0;
  double output_bytes = 0;
  double weight_bytes = 0;
  std::set<std::size_t> producers;
  std::set<std::size_t> consumers;
  bool is_stripped = false;
};

class graph_reader {
public:
  graph_reader(std::string_view text, const std::string& source) : source_(source) {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      read_line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (const auto& e : edges_)
      connect(e);
  }

  std::vector<graph_node>& nodes() { return nodes_; }

private:
  struct edge {
    std::size_t line = 0;
    std::string_view from, to;
  };

  [[noreturn]] void refuse(std::size_t line, const std::string& what) const {
    throw std::invalid_argument(source_ + ":" + std::to_string(line) + ": " + what);
  }

  void read_line(std::string_view line) {
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) return;
    if (line[0] != '\t' && line[0] != ' ') return read_node(line);
    line.remove_prefix(line.find_first_not_of(" \t"));
    const auto middle = line.find(separator);
    if (middle == std::string_view::npos) refuse(line_, "the edge is " + quoted(line) + ", wanted 'nodeA -- nodeB'");
    edges_.push_back({line_, line.substr(0, middle), line.substr(middle + separator.size())});
  }

  void read_node(std::string_view line) {
    // The description may hold anything, so the costs are looked for from the right.
    const auto name_end = line.find(separator);
    const auto costs_at = line.rfind(" -- forward_compute_time=");
    if (name_end == std::string_view::npos || costs_at == std::string_view::npos)
      refuse(line_, "the node is " + quoted(line) + ", wanted 'nodeN -- description -- forward_compute_time=..., ...'");
    graph_node node;
    node.name = line.substr(0, name_end);
    if (costs_at > name_end)
      node.description = line.substr(name_end + separator.size(), costs_at - name_end - separator.size());
    auto costs = line.substr(costs_at + separator.size());
    if (const auto stage = costs.find(" -- stage_id="); stage != std::string_view::npos) costs = costs.substr(0, stage);
    read_costs(node, costs);
    if (!index_.emplace(node.name, nodes_.size()).second)
      refuse(line_, "node " + quoted(node.name) + " is there twice");
    nodes_.push_back(std::move(node));
  }

  void read_costs(graph_node& node, std::string_view costs) const {
    constexpr double milliseconds = 1e-3;
    const struct {
      std::string_view key;
      double* value;
      double unit;
    } fields[] = {{"forward_compute_time", &node.forward_seconds, milliseconds},
                  {"backward_compute_time", &node.backward_seconds, milliseconds},
                  {"activation_size", &node.output_bytes, 1},
                  {"parameter_size", &node.weight_bytes, 1}};
    std::set<std::string_view> seen;
    while (!costs.empty()) {
      const auto end = std::min(costs.find(", "), costs.size());
      const auto item = costs.substr(0, end);
      costs.remove_prefix(std::min(end + 2, costs.size()));
      const auto equals = std::min(item.find('='), item.size());
      const auto field = std::find_if(std::begin(fields), std::end(fields),
                                      [&](const auto& f) { return f.key == item.substr(0, equals); });
      if (field == std::end(fields) || equals == item.size())
        refuse(line_, "node " + quoted(node.name) + " has " + quoted(item) +
                          ", wanted forward_compute_time, backward_compute_time, activation_size and parameter_size");
      if (!seen.insert(field->key).second)
        refuse(line_, "node " + quoted(node.name) + " has " + std::string(field->key) + " twice");
      *field->value = field->unit * read_sum(item.substr(equals + 1), node.name + ": " + std::string(field->key));
    }
    for (const auto& f : fields)
      if (!seen.contains(f.key)) refuse(line_, "node " + quoted(node.name) + " has no " + std::string(f.key));
  }

  /// "1.5", or "[1; 2; 3]" for a node with several outputs.
  double read_sum(std::string_view text, const std::string& what) const {
    if (!text.starts_with('[') || !text.ends_with(']')) return read_number(text, what);
    text = text.substr(1, text.size() - 2);
    for (double sum = 0;;) {
      const auto end = std::min(text.find("; "), text.size());
      sum += read_number(text.substr(0, end), what);
      if (end == text.size()) return sum;
      text.remove_prefix(end + 2);
    }
  }

  double read_number(std::string_view text, const std::string& what) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
      refuse(line_, shown(what) + " is " + quoted(text) + ", wanted a number of at least 0");
    return value;
  }

  std::size_t node_named(const edge& e, std::string_view name) const {
    const auto found = index_.find(name);
    if (found == index_.end()) refuse(e.line, "the edge names " + quoted(name) + ", and no node is called so");
    return found->second;
  }

  void connect(const edge& e) {
    const auto from = node_named(e, e.from);
    const auto to = node_named(e, e.to);
    nodes_[from].consumers.insert(to);
    nodes_[to].producers.insert(from);
  }

  const std::string& source_;
  std::size_t line_ = 0;
  std::vector<graph_node> nodes_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::vector<edge> edges_;
};

/// 12 for "node12"; what has no number comes last.
std::int64_t number_of(const std::string& name) {
  auto value = std::numeric_limits<std::int64_t>::max();
  const auto digits = name.find_last_not_of("0123456789") + 1;
  std::from_chars(name.data() + digits, name.data() + name.size(), value);
  return value;
}

/// Kahn's order with the least number first, so that a graph numbered in topological order keeps its numbering.
std::vector<std::size_t> topological_order(const std::vector<graph_node>& nodes, const std::string& source) {
  using entry = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> ready;
  std::vector<std::size_t> waiting_for(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    waiting_for[i] = nodes[i].producers.size();
    if (waiting_for[i] == 0) ready.emplace(number_of(nodes[i].name), i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top().second);
    ready.pop();
    for (const auto consumer : nodes[order.back()].consumers)
      if (--waiting_for[consumer] == 0) ready.emplace(number_of(nodes[consumer].name), consumer);
  }
  if (order.size() < nodes.size()) {
    // Every node that is left waits for another one that is left, so going back from any of them ends on a cycle.
    const auto is_left = [&](std::size_t i) { return waiting_for[i] > 0; };
    std::size_t at = 0;
    while (!is_left(at))
      ++at;
    for (std::size_t steps = 0; steps < nodes.size(); ++steps)
      at = *std::find_if(nodes[at].producers.begin(), nodes[at].producers.end(), is_left);
    throw std::invalid_argument(source + ": node " + quoted(nodes[at].name) + " is on a cycle, wanted a graph without");
  }
  return order;
}

/// Inputs cost no stage anything (their time is that of loading data), and items of a tuple that nothing reads are no
/// work; both would only add states to the search. The published planner strips them too.
void strip(std::vector<graph_node>& nodes, const std::vector<std::size_t>& order) {
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    auto& node = nodes[*i];
    const auto is_read = [&](std::size_t consumer) { return !nodes[consumer].is_stripped; };
    const bool is_unread_item = node.description.starts_with("__getitem__") &&
                                std::none_of(node.consumers.begin(), node.consumers.end(), is_read);
    node.is_stripped = is_unread_item || (node.producers.empty() && node.description.starts_with("Input"));
  }
}

/// "vgg16" for "profiles/vgg16.txt".
std::string stem(std::string_view path) {
  path = path.substr(path.find_last_of("/\\") + 1);
  return std::string(path.substr(0, path.rfind('.')));
}

} // namespace

profile profile_from_graph(std::string_view text, const std::string& source, std::int64_t samples) {
  if (samples < 1)
    throw std::invalid_argument(source + ": a batch has " + std::to_string(samples) + " samples, wanted at least 1");
  refuse_other_kind(text, source, file_kind::graph, wanted_profile, file_kind::profile);
  graph_reader reader(text, source);
  auto& nodes = reader.nodes();
  const auto order = topological_order(nodes, source);
  strip(nodes, order);

  profile p;
  p.model = stem(source);
  p.measurements.push_back({samples, 1, {}, {}});
  std::vector<int> index_of(nodes.size(), -1); // of its layer; what is stripped and read is the model's input
  double input_bytes = 0;
  for (const auto i : order) {
    const auto& node = nodes[i];
    if (node.is_stripped) {
      if (node.description.starts_with("Input")) input_bytes += node.output_bytes;
      continue;
    }
    index_of[i] = static_cast<int>(p.layers.size());
    profile_layer layer{.name = node.name, .kind = node.description, .weight_bytes = node.weight_bytes};
    std::set<int> inputs;
    for (const auto producer : node.producers)
      inputs.insert(index_of[producer]);
    layer.inputs.assign(inputs.begin(), inputs.end());
    p.layers.push_back(std::move(layer));
    p.measurements[0].layers.push_back({.forward_seconds = node.forward_seconds,
                                        .backward_seconds = node.backward_seconds,
                                        .output_bytes = node.output_bytes,
                                        .kept_output_bytes = node.output_bytes,
                                        .kept_bytes = node.output_bytes});
  }
  auto& only = p.measurements[0];
  for (std::size_t i = 0; i < p.layers.size(); ++i) {
    only.layers[i].weight_seconds = usual_weight_seconds(p.layers[i], only.layers[i]);
    only.layers[i].delayed_bytes = usual_delayed_bytes(p, only, i);
  }
  try {
    p.input_bytes_per_sample = std::llround(std::min(input_bytes / static_cast<double>(samples), 9e18));
    check_profile(p);
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(source + ": " + e.what());
  }
  return p;
}

} // namespace penstock::planner
