"""The calls of SEAL, TenSEAL, OpenFHE, Lattigo and desilofhe: what to write here instead.

By their names, whichever object has them there. `docs/coming-from.md` has the same in tables.
"""

from __future__ import annotations

from collections.abc import Mapping

_BY_CODE: Mapping[str, str] = {
    "ckks.context(depth=2), with the number of products in a row": "Create EncryptionParameters "
    "SEALContext SCHEME_TYPE CKKS context SetMultiplicativeDepth GenCryptoContext Enable Engine "
    "NewParametersFromLiteral ParametersLiteral NewParameters",
    "ckks.context(depth=2, scale_bits=40)": "global_scale SetScalingModSize scale",
    "ckks.context(depth=2, security=128)": "SetSecurityLevel",
    "ckks.context(depth=2, slots=8)": "SetBatchSize",
    "ckks.Parameters.for_depth(2, dnum=3)": "SetNumLargeDigits",
    "ckks.manual(), in which nothing is inserted": "auto_relin auto_rescale auto_mod_switch "
    "SetScalingTechnique EvalMultNoRelin",
    "print(ctx.params)": "key_context_data LogQP log_qp MaxLevel",
    "ctx.params.depth, the top level; of a ciphertext x.level": "max_level num_levels",
    "x.level, the depth that is left, of ctx.params.depth": "GetLevel chain_index parms_id "
    "get_context_data coeff_modulus_size",
    "x.scale": "GetScalingFactor scaling_factor PlaintextScale GetNoiseScaleDeg",
    "ctx.slots": "slot_count batch_size MaxSlots",
    "ckks.context(depth=2), which holds the secret key; ctx.public() encrypts": "KeyGen keygen "
    "KeyGenerator NewKeyGenerator secret_key SecretKey create_secret_key GenSecretKeyNew "
    "create_public_key GenPublicKeyNew GenKeyPairNew",
    "ctx.relinearization_key(), which is made when it is first used": "create_relin_keys "
    "generate_relin_keys relin_keys EvalMultKeyGen GenRelinearizationKeyNew "
    "create_relinearization_key",
    "ctx.rotation_keys([1, 2]), which are made when they are first used": "create_galois_keys "
    "generate_galois_keys galois_keys EvalRotateKeyGen EvalSumKeyGen EvalAtIndexKeyGen "
    "GenGaloisKeysNew GaloisElements create_fixed_rotation_key create_rotation_key",
    "ctx.conjugation_key(), which is made when it is first used": "create_conjugation_key",
    "ctx.server(), whose to_bytes() a server gets": "make_context_public NewMemEvaluationKeySet "
    "SerializeEvalMultKey SerializeEvalAutomorphismKey",
    "ckks.load_server(data)": "context_from",
    "ctx.encode(values)": "plain_tensor MakeCKKSPackedPlaintext NewPlaintext Encode encode "
    "CKKSEncoder NewEncoder",
    "ctx.encrypt(values)": "ckks_vector encrypt_symmetric Encrypt EncryptNew Encryptor "
    "NewEncryptor encrypt",
    'ckks.stack([x, y]), or ctx.encrypt(matrix, pack="rows")': "ckks_tensor CKKSTensor",
    "x.decrypt()": "Decrypt DecryptNew GetRealPackedValue GetCKKSPackedValue Decode decode "
    "Decryptor NewDecryptor decrypt",
    "x + y": "EvalAdd EvalAddMany Add AddNew add add_plain add_many",
    "x - y": "EvalSub Sub SubNew sub sub_plain subtract",
    "-x": "EvalNegate neg negate",
    "x * y": "EvalMult EvalMultMany Mul MulNew MulRelin MulRelinNew mul multiply multiply_plain "
    "MulThenAdd MulRelinThenAdd multiply_many",
    "x * y, which is relinearized; in ckks.manual() x.relinearize()": "Relinearize RelinearizeNew "
    "relinearize relinearize_inplace",
    "x * y, which is rescaled; in ckks.manual() x.rescale()": "Rescale RescaleTo rescale "
    "rescale_to_next rescale_to_next_inplace ModReduce",
    "x**2": "EvalSquare Square square",
    "x**k": "exponentiate pow power Power",
    "x.drop_to(level); operators align by themselves": "Compress DropLevel DropLevelNew SetScale "
    "LevelReduce level_down mod_switch mod_switch_to mod_switch_to_inplace mod_switch_to_next "
    "mod_switch_to_next_inplace",
    "x.rotate(k)": "EvalRotate EvalAtIndex Rotate RotateNew rotate rotate_vector "
    "rotate_vector_inplace delta",
    "ren.realize(x.rotate(1), x.rotate(2)), which share their work": "EvalFastRotation "
    "EvalFastRotationPrecompute RotateHoisted RotateHoistedNew rotate_many",
    "x.conj()": "Conjugate ConjugateNew conjugate complex_conjugate",
    "x.sum()": "EvalSum InnerSum sum",
    "x.dot(y)": "EvalInnerProduct dot",
    "x @ matrix, or ckks.linear(matrix, ctx) @ x": "matmul mm NewTransformation "
    "EvalLinearTransform",
    "x * 2 + y * 0.5": "weighted_sum EvalLinearWSum",
    "ckks.poly(x, coefficients), the constant first": "EvalPoly polyval evaluate_polynomial",
    "ckks.chebyshev(x, f, (a, b), degree)": "EvalChebyshevFunction EvalChebyshevSeries "
    "evaluate_chebyshev_polynomial",
    "ckks.math.sigmoid(x)": "EvalLogistic",
    "ckks.math.sin(x)": "EvalSin",
    "ckks.math.cos(x)": "EvalCos",
    "ckks.math.inverse(x)": "EvalDivide",
    "x / numbers, or ckks.math.inverse(y) * x": "divide div",
    "ckks.conv2d(image, kernel)": "im2col_encoding conv2d_im2col conv2d_im2col_encode",
    "ckks.concat([x, y])": "CKKSVector pack_vectors EvalMerge",
    "ckks.pad(x, length), or x.sum(), which fills all slots": "replicate_first_slot Replicate",
    "the operators of x: they need no evaluator": "Evaluator NewEvaluator evaluator",
    "ctx.switch_key(x, other)": "ReKeyGen ReEncrypt GenEvaluationKeyNew ApplyEvaluationKeyNew "
    "KeySwitch",
    "ctx.decrypt_shared(x, x.estimate, queries=10)": "SetDecryptionNoiseMode "
    "SetNumAdversarialQueries",
    "ckks.precision(x, values)": "GetPrecisionStats",
    "x.nbytes": "BinarySize MarshalBinarySize",
    "x.to_bytes() and ckks.Ciphertext.from_bytes(data), or x.save(path)": "serialize Serialize "
    "SerializeToFile DeserializeCiphertext ckks_vector_from MarshalBinary UnmarshalBinary "
    "serialize_ciphertext deserialize_ciphertext write_ciphertext read_ciphertext load "
    "DeserializeFromFile",
    "ckks.context(bootstrapping=True) and x.bootstrap()": "EvalBootstrap EvalBootstrapSetup "
    "EvalBootstrapKeyGen Bootstrap create_bootstrap_key bootstrap",
    "x itself, which never changes": "Clone CopyNew clone",
    "isinstance(x, ckks.Ciphertext)": "is_encrypted is_ciphertext",
}

IN_OTHERS = {name: code for code, names in _BY_CODE.items() for name in names.split()}
