"""What a scanner adds: noise, fields, acquisitions, kernels. Nothing here knows the disease."""
