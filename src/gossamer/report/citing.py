"""What to cite: Gossamer, and the paper whose method was run."""

_PAPERS = {
    "ERM": """@inproceedings{wang2017erm,
  title     = {Differentially Private Empirical Risk Minimization Revisited: Faster and More General},
  author    = {Wang, Di and Ye, Minwei and Xu, Jinhui},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {30},
  year      = {2017}
}""",
    "MINIMAX": """@inproceedings{zhang2025minimax,
  title     = {Improved Rates of Differentially Private Nonconvex-Strongly-Concave Minimax Optimization},
  author    = {Zhang, Ruijia and Lei, Mingxi and Ding, Meng and Xiang, Zihang and Xu, Jinhui and Wang, Di},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  volume    = {39},
  pages     = {22524--22532},
  year      = {2025}
}""",
    "DRO": """@misc{xu-dro,
  title  = {Differentially Private Non-convex Distributionally Robust Optimization},
  author = {Xu, Difei and Ding, Meng and Ma, Zebin and Xie, Huanyi and Tao, Youming and Slaitane, Aicha and Wang, Di}
}""",
    "SOSP": """@inproceedings{xu2026sosp,
  title     = {Finding Differentially Private Second Order Stationary Points in Stochastic Minimax Optimization},
  author    = {Xu, Difei and Tao, Youming and Ding, Meng and Fan, Chenglin and Wang, Di},
  booktitle = {Proceedings of the 43rd International Conference on Machine Learning},
  volume    = {306},
  publisher = {PMLR},
  year      = {2026}
}""",
    "ZO": """@misc{zhang-zeroth,
  title  = {Private Zeroth-Order Nonsmooth Nonconvex Optimization},
  author = {Zhang, Qinzi and Tran, Hoang and Cutkosky, Ashok}
}""",
    "SGD": """@inproceedings{abadi2016,
  title     = {Deep Learning with Differential Privacy},
  author    = {Abadi, Martin and Chu, Andy and Goodfellow, Ian and McMahan, H. Brendan and Mironov, Ilya
               and Talwar, Kunal and Zhang, Li},
  booktitle = {Proceedings of the 2016 ACM SIGSAC Conference on Computer and Communications Security},
  pages     = {308--318},
  year      = {2016}
}""",
    "SPIDER": """@inproceedings{arora2023,
  title     = {Faster Rates of Convergence to Stationary Points in Differentially Private Optimization},
  author    = {Arora, Raman and Bassily, Raef and Gonz{\\'a}lez, Tom{\\'a}s and Guzm{\\'a}n, Crist{\\'o}bal A
               and Menart, Michael and Ullah, Enayat},
  booktitle = {International Conference on Machine Learning},
  pages     = {1060--1092},
  publisher = {PMLR},
  year      = {2023}
}""",
    "STO_SPIDER": """@inproceedings{liu2023,
  title     = {Private (Stochastic) Non-Convex Optimization Revisited: Second-Order Stationary Points and Excess Risks},
  author    = {Liu, D. and Ganesh, A. and Oh, S. and Guha Thakurta, A.},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {36},
  pages     = {65618--65641},
  year      = {2023}
}""",
    "ADA_SPIDER": """@misc{tao2025,
  title         = {Second-Order Convergence in Private Stochastic Non-Convex Optimization},
  author        = {Tao, Y. and Zhang, Z. and Yu, D. and Cheng, X. and Dressler, F. and Wang, D.},
  eprint        = {2505.15647},
  archiveprefix = {arXiv},
  year          = {2025}
}""",
    "PERTURBATION": """@article{chaudhuri2011,
  title   = {Differentially Private Empirical Risk Minimization},
  author  = {Chaudhuri, Kamalika and Monteleoni, Claire and Sarwate, Anand D},
  journal = {Journal of Machine Learning Research},
  volume  = {12},
  number  = {3},
  year    = {2011}
}""",
}

PAPER_OF = {
    "GD": "ERM",
    "SVRG": "ERM",
    "SVRGpp": "ERM",
    "AccMD": "ERM",
    "SGD": "SGD",
    "Spider": "SPIDER",
    "StoSpider": "STO_SPIDER",
    "AdaSpider": "ADA_SPIDER",
    "SGDA": "MINIMAX",
    "PrivateDiff": "MINIMAX",
    "RGDA": "SOSP",
    "DoubleSpider": "DRO",
    "RecursiveSpider": "DRO",
    "O2NC": "ZO",
    "OutputPerturbation": "PERTURBATION",
    "ObjectivePerturbation": "PERTURBATION",
}
"""Which paper a method is from."""
UNPUBLISHED = {"Whitened"}
"""What was made here: it is cited as Gossamer."""


def entries(method: str, version: str) -> tuple[str, ...]:
    """Return BibTeX entries for this version of Gossamer and for the paper of a method, if it is one of ours."""
    own = f"""@misc{{gossamer,
  title = {{Gossamer: Private Training beyond {{DP-SGD}}}},
  note  = {{Version {version}}}
}}"""
    return (own, _PAPERS[PAPER_OF[method]]) if method in PAPER_OF else (own,)
