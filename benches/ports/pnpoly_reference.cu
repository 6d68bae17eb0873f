__global__ void slopes_of(const float2* vertices, float* slopes, int count)
{
    int to = blockIdx.x * blockDim.x + threadIdx.x;
    if (to < count) {
        float2 a = vertices[to];
        float2 b = vertices[to == 0 ? count - 1 : to - 1];
        slopes[to] = (b.x - a.x) / (b.y - a.y);
    }
}

// A ray to the right crosses the polygon's outline an odd number of times if it starts inside.
__global__ void reference(int* inside, const float2* points, const float2* vertices, int n, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n)
        return;
    float2 p = points[at];
    int crossings = 0;
    for (int to = 0; to < count; to++) {
        float2 a = vertices[to];
        float2 b = vertices[to == 0 ? count - 1 : to - 1];
        float slope = (b.x - a.x) / (b.y - a.y);
        if ((a.y > p.y) != (b.y > p.y) && p.x < slope * (p.y - a.y) + a.x)
            crossings++;
    }
    inside[at] = crossings % 2;
}
