// The cheapest one-to-one matching of two finite sets, exactly; and with it the Wasserstein distance of two samples.
#pragma once

#include <cstddef>
#include <vector>

namespace asr {

// cost[i][j] >= 0 of giving row i the column j, square. Returns the column of each row with the smallest total.
// Shortest augmenting paths with potentials (the Hungarian method), of order n^3.
std::vector<size_t> cheapest_assignment(const std::vector<std::vector<double>>& cost);

// W1 between the empirical laws of two samples of one size, under d(z, z') = |(z - z') / sqrt(metric_variance)|.
double wasserstein_1(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b,
                     const std::vector<double>& metric_variance);

}  // namespace asr
