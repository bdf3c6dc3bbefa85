extern "C" __global__ void broken(int *out) {
    out[0] = missing_name;
    out[1] = 3
}
