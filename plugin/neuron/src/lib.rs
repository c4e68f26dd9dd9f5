//! libnccom-net.so: the transport behind Neuron's ncclNetPlugin tables
